/* The part of JSON that a description of cards needs. Values live until the document is freed. */
#ifndef STUB_JSON_H
#define STUB_JSON_H

enum json_kind { JSON_NULL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

/* A value; elements of lists and objects are a chain, with `key` in objects alone. true is 1, false is 0. */
struct json {
    enum json_kind kind;
    double number;
    char *text;
    char *key;
    struct json *first;
    struct json *next;
};

/* Returns NULL where the text is no JSON. A text's \u00XX is the one byte XX, so that it need not be UTF-8. */
struct json *json_parse(const char *text);
void json_free(struct json *value);

/* What is not there is NULL, the default, or 0 long: each takes NULL for a value. */
const struct json *json_find(const struct json *object, const char *key);
const struct json *json_item(const struct json *list, unsigned place);
unsigned json_length(const struct json *list);
double json_number(const struct json *object, const char *key, double otherwise);
const struct json *json_first(const struct json *list);
const char *json_text(const struct json *object, const char *key, const char *otherwise);

/* for (JSON_EACH(each, list)) goes through the elements of a list; one that is not there has none. */
#define JSON_EACH(each, list) const struct json *each = json_first(list); each; each = each->next

#endif
