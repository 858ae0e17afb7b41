set -eu
# HAMi's image has it under its version alone: libvgpu.so.v2.10.0.
has_library() {
    for library in "$1"/libvgpu.so "$1"/libvgpu.so.*; do
        [ ! -e "$library" ] || return 0
    done
    return 1
}
if ! has_library "$SOURCE"; then
    if has_library "$TARGET"; then
        echo "the image has no libvgpu.so in $SOURCE; the node's own in $TARGET is used"
        rm -f "$TARGET/placed-libraries"
        exit 0
    fi
    echo "there is no libvgpu.so, neither in $SOURCE of this image nor in $TARGET of the node: name an image that has" \
        "HAMi-core's library in devicePlugin.library.image and its folder in devicePlugin.library.path" >&2
    exit 1
fi
# Renamed into place: programs that run keep the file that they have. Other versions stay for containers that were
# started with them; new ones get what this image brings, an older version, too.
: > "$TARGET/.placed-libraries.new"
for file in "$SOURCE"/*; do
    name=${file##*/}
    [ "$name" = ld.so.preload ] && continue
    cp "$file" "$TARGET/.$name.new"
    mv -f "$TARGET/.$name.new" "$TARGET/$name"
    case $name in libvgpu.so | libvgpu.so.*) echo "$name" >> "$TARGET/.placed-libraries.new" ;; esac
done
mv -f "$TARGET/.placed-libraries.new" "$TARGET/placed-libraries"
echo "$TARGET/libvgpu.so" > "$TARGET/.ld.so.preload.new"
mv -f "$TARGET/.ld.so.preload.new" "$TARGET/ld.so.preload"
