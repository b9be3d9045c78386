#!/bin/sh
# Prints what limic reads of this machine below /sys/devices/system, in the format of the files
# beside this one:  ./record.sh > my-machine.txt
#
# A line is "PATH = CONTENT", or "FOLDER[NUMBERS]: FILE... = CONTENT" for each of the numbers and
# files. Of a first-level cache the level alone is kept, and of a node's meminfo the total.
set -eu
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "# ${model:-$(uname -m)}, Linux $(uname -r), recorded."
cd "${1:-/sys/devices/system}"
for file in \
    cpu/online cpu/cpu[0-9]*/online \
    cpu/cpu[0-9]*/topology/physical_package_id \
    cpu/cpu[0-9]*/topology/package_cpus_list cpu/cpu[0-9]*/topology/core_siblings_list \
    cpu/cpu[0-9]*/topology/core_cpus_list cpu/cpu[0-9]*/topology/thread_siblings_list \
    cpu/cpu[0-9]*/cache/index[0-9]*/level cpu/cpu[0-9]*/cache/index[0-9]*/type \
    cpu/cpu[0-9]*/cache/index[0-9]*/size cpu/cpu[0-9]*/cache/index[0-9]*/shared_cpu_list \
    node/online node/node[0-9]*/cpulist node/node[0-9]*/meminfo
do
    [ -r "$file" ] || continue
    case $file in
        */cache/*) [ "${file##*/}" = level ] || [ "$(cat "${file%/*}/level")" != 1 ] || continue ;;
    esac
    case $file in
        */meminfo) content=$(grep MemTotal: "$file") ;;
        *) content=$(cat "$file") ;;
    esac
    echo "$file = $content"
done | sort -V | awk '
    # Numbers in ascending order, as the kernel writes a list.
    function join(list, number,  n, ranges, ends) {
        n = split(list, ranges, ",")
        split(ranges[n], ends, "-")
        if (number != ends[ends[2] == "" ? 1 : 2] + 1) return list "," number
        sub(/(-[0-9]+)?$/, "-" number, list)
        return list
    }
    {
        at = index($0, " = ")
        path = substr($0, 1, at - 1)
        content = substr($0, at + 3)
        if (!match(path, /[0-9]+\//)) { print; next }
        folder = substr(path, 1, RSTART - 1)
        number = substr(path, RSTART, RLENGTH - 1)
        key = folder SUBSEP substr(path, RSTART + RLENGTH) SUBSEP content
        if (key in numbers) { numbers[key] = join(numbers[key], number) }
        else { numbers[key] = number; keys[++count] = key }
    }
    END {
        for (i = 1; i <= count; i++) {
            split(keys[i], part, SUBSEP)
            line = part[1] "[" numbers[keys[i]] "]" SUBSEP part[3]
            if (line in files) { files[line] = files[line] " " part[2] }
            else { files[line] = part[2]; lines[++wanted] = line }
        }
        for (i = 1; i <= wanted; i++) {
            split(lines[i], part, SUBSEP)
            line = part[1] ": " files[lines[i]] " = " part[2]
            sub(/ $/, "", line)
            print line
        }
    }'
