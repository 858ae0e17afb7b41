#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct json *parse_value(const char **at);

static void skip_space(const char **at) {
    while (isspace((unsigned char)**at))
        ++*at;
}

static int take(const char **at, char wanted) {
    skip_space(at);
    if (**at != wanted)
        return 0;
    ++*at;
    return 1;
}

static char unescape(const char **at) {
    char letter = *(*at)++;
    char digits[5] = {0};
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'u':
        strncpy(digits, *at, 4);
        *at += strlen(digits);
        return (char)strtoul(digits, NULL, 16);
    default:
        return letter;
    }
}

/* Reads a text after its first quotation mark. */
static char *parse_text(const char **at) {
    char *text = malloc(strlen(*at) + 1), *end = text;
    while (**at && **at != '"') {
        char letter = *(*at)++;
        *end++ = letter == '\\' && **at ? unescape(at) : letter;
    }
    *end = 0;
    if (**at)
        ++*at;
    return text;
}

/* Reads the elements of a list or an object up to `closing`; returns 0 where they are broken. */
static int parse_elements(const char **at, struct json *parent, char closing) {
    struct json **place = &parent->first;
    if (take(at, closing))
        return 1;
    do {
        char *key = NULL;
        if (closing == '}') {
            if (!take(at, '"'))
                return 0;
            key = parse_text(at);
            if (!take(at, ':')) {
                free(key);
                return 0;
            }
        }
        *place = parse_value(at);
        if (!*place) {
            free(key);
            return 0;
        }
        (*place)->key = key;
        place = &(*place)->next;
    } while (take(at, ','));
    return take(at, closing);
}

static int parse_word(const char **at, struct json *value) {
    static const struct {
        const char *word;
        enum json_kind kind;
        double number;
    } words[] = {{"true", JSON_NUMBER, 1}, {"false", JSON_NUMBER, 0}, {"null", JSON_NULL, 0}};
    for (unsigned place = 0; place < 3; ++place) {
        size_t length = strlen(words[place].word);
        if (strncmp(*at, words[place].word, length) == 0) {
            value->kind = words[place].kind;
            value->number = words[place].number;
            *at += length;
            return 1;
        }
    }
    char *end;
    value->kind = JSON_NUMBER;
    value->number = strtod(*at, &end);
    int is_number = end != *at;
    *at = end;
    return is_number;
}

static struct json *parse_value(const char **at) {
    struct json *value = calloc(1, sizeof *value);
    int is_good = 1;
    skip_space(at);
    if (take(at, '{')) {
        value->kind = JSON_OBJECT;
        is_good = parse_elements(at, value, '}');
    } else if (take(at, '[')) {
        value->kind = JSON_LIST;
        is_good = parse_elements(at, value, ']');
    } else if (take(at, '"')) {
        value->kind = JSON_TEXT;
        value->text = parse_text(at);
    } else {
        is_good = parse_word(at, value);
    }
    if (is_good)
        return value;
    json_free(value);
    return NULL;
}

struct json *json_parse(const char *text) {
    struct json *value = parse_value(&text);
    skip_space(&text);
    if (value && *text) {
        json_free(value);
        return NULL;
    }
    return value;
}

void json_free(struct json *value) {
    while (value) {
        struct json *next = value->next;
        json_free(value->first);
        free(value->text);
        free(value->key);
        free(value);
        value = next;
    }
}

const struct json *json_find(const struct json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (JSON_EACH(each, object))
        if (strcmp(each->key, key) == 0)
            return each;
    return NULL;
}

const struct json *json_first(const struct json *list) { return list ? list->first : NULL; }

const struct json *json_item(const struct json *list, unsigned place) {
    const struct json *each = list ? list->first : NULL;
    while (each && place--)
        each = each->next;
    return each;
}

unsigned json_length(const struct json *list) {
    unsigned length = 0;
    for (JSON_EACH(each, list))
        ++length;
    return length;
}

double json_number(const struct json *object, const char *key, double otherwise) {
    const struct json *value = json_find(object, key);
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

const char *json_text(const struct json *object, const char *key, const char *otherwise) {
    const struct json *value = json_find(object, key);
    return value && value->kind == JSON_TEXT ? value->text : otherwise;
}
