#!/bin/sh
# Builds the DLLs of the emulated host that Wine lacks, and its programs: build.sh OUTDIR.
# The same input gives the same bytes.
set -eu
out=${1:?usage: build.sh OUTDIR}
here=$(cd "$(dirname "$0")" && pwd)
cc=x86_64-w64-mingw32-gcc
command -v $cc >/dev/null || { echo "building the emulator's DLLs: $cc is missing (apt-get install gcc-mingw-w64-x86-64)" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
compiler="-O2 -Wall -Wextra -Wno-missing-field-initializers"
flags="-shared -s $compiler -static-libgcc -Wl,--no-insert-timestamp"
cd "$here"

# Windows' declarations take the compiler longer than what most files say: it reads them once. A program that wants them otherwise says
# so with -DOWN_HEADERS.
headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
printf '#ifndef OWN_HEADERS\n#include <winsock2.h>\n#include <windows.h>\n#endif\n' >"$headers/windows.h"
$cc $compiler -x c-header "$headers/windows.h" -o "$headers/windows.h.gch"

# build OUTPUT ARGUMENTS: in the folder of the output, because the linker takes a DLL's base address from the path of its file as it is given.
build() {
	name=$1
	shift
	for a; do
		shift
		case $a in *.c | *.def) a=$here/$a ;; esac
		set -- "$@" "$a"
	done
	(cd "$out" && $cc -include "$headers/windows.h" "$@" -o "$name")
}
build computenetwork.dll $flags computenetwork.c notify.c wire.c
build vmcompute.dll $flags vmcompute.c notify.c wire.c -lntdll
sed -n 's/^.* = thunk_\(.*\)$/FUNCTION(\1)/p' combase.def >"$out/combase_functions.h"
build combase.dll $flags -DOWN_HEADERS -I "$out" combase.c combase.def
rm "$out/combase_functions.h"
build bcryptprimitives.dll $flags bcryptprimitives.c stack.c mend.c mend_*.c -ladvapi32 -lntdll
build hnetcfg.dll $flags -DOWN_HEADERS hnetcfg.c wire.c -loleaut32 -lole32 -luuid
build bindfltapi.dll $flags bindfltapi.c wire.c -lntdll
build virtdisk.dll $flags -DWIRE_WITHOUT_MAIN virtdisk.c wire.c builtin.c virtdisk.def
build pdh.dll $flags pdh.c -liphlpapi -lws2_32
build iphlpapi.dll $flags -DKEPT_MS=0 iphlpapi.c servers.c adapters.c wire.c iphlpapi.def -lws2_32
build sechost.dll $flags -DOWN_HEADERS -DWIRE_PORT=SCM_PORT '-DWIRE_VARIABLE="SCM_ADDR"' sechost.c wire.c sechost.def
build ws2_32.dll $flags -DOWN_HEADERS ws2_32.c mark.c unix.c unix_relay.c ownname.c builtin.c ws2_32.def
build netapi32.dll $flags netapi32.c builtin.c netapi32.def -ladvapi32
build nsi.dll $flags -DWIRE_WITHOUT_MAIN nsi.c show.c adapters.c wire.c builtin.c nsi.def
build porthole-launch.exe ${flags#-shared} -DOWN_HEADERS launch.c -lntdll
build ipconfig.exe ${flags#-shared} -DOWN_HEADERS ipconfig.c -liphlpapi -lws2_32
build hostname.exe ${flags#-shared} hostname.c -lws2_32
build shutdown.exe ${flags#-shared} -municode -DOWN_HEADERS -DWIRE_PORT=SCM_PORT '-DWIRE_VARIABLE="SCM_ADDR"' shutdown.c wire.c
build nltest.exe ${flags#-shared} nltest.c -ladvapi32
build findstr.exe ${flags#-shared} findstr.c
build ping.exe ${flags#-shared} ping.c echo.c -lws2_32
build porthole-pipe.exe ${flags#-shared} pipe.c
build sort.exe ${flags#-shared} sort.c lines.c
build more.com ${flags#-shared} more.c lines.c
build timeout.exe ${flags#-shared} timeout.c
build where.exe ${flags#-shared} -municode -DOWN_HEADERS where.c
build whoami.exe ${flags#-shared} -municode -DOWN_HEADERS whoami.c -ladvapi32
build net.exe ${flags#-shared} -municode -DOWN_HEADERS net.c -lnetapi32
# Programs that ask a Wine about its mends: in a folder of their own, because no host has them.
mkdir -p "$out/probe"
printf 'LIBRARY advapi32.dll\nEXPORTS\nRegCloseKey\n' >"$out/probe/advapi32.def"
(cd "$out/probe" && ${cc%gcc}dlltool -d advapi32.def -l advapi32.a)
build probe/mended.exe ${flags#-shared} mended.c probe/advapi32.a
rm "$out/probe/advapi32.def" "$out/probe/advapi32.a"
for program in netsh tar curl nslookup; do
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/$program.exe" ../$program
done
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/probe/mends.exe" ../mends
