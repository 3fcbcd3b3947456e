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
flags="-shared -s -O2 -Wall -Wextra -Wno-missing-field-initializers -static-libgcc -Wl,--no-insert-timestamp"
cd "$here"
$cc $flags -o "$out/computenetwork.dll" computenetwork.c notify.c wire.c
$cc $flags -o "$out/vmcompute.dll" vmcompute.c notify.c wire.c -lntdll
sed -n 's/^.* = thunk_\(.*\)$/FUNCTION(\1)/p' combase.def >"$out/combase_functions.h"
$cc $flags -I "$out" -o "$out/combase.dll" combase.c combase.def
rm "$out/combase_functions.h"
$cc $flags -o "$out/bcryptprimitives.dll" bcryptprimitives.c stack.c mend.c mend_*.c -ladvapi32 -lntdll
$cc $flags -o "$out/hnetcfg.dll" hnetcfg.c wire.c -loleaut32 -lole32 -luuid
$cc $flags -o "$out/bindfltapi.dll" bindfltapi.c wire.c -lntdll
$cc $flags -DWIRE_WITHOUT_MAIN -o "$out/virtdisk.dll" virtdisk.c wire.c builtin.c virtdisk.def
$cc $flags -o "$out/pdh.dll" pdh.c -liphlpapi -lws2_32
$cc $flags -DKEPT_MS=0 -o "$out/iphlpapi.dll" iphlpapi.c servers.c adapters.c wire.c iphlpapi.def -lws2_32
$cc $flags -DWIRE_PORT=SCM_PORT '-DWIRE_VARIABLE="SCM_ADDR"' -o "$out/sechost.dll" sechost.c wire.c sechost.def
$cc $flags -o "$out/ws2_32.dll" ws2_32.c unix.c ownname.c builtin.c ws2_32.def
$cc $flags -o "$out/netapi32.dll" netapi32.c builtin.c netapi32.def -ladvapi32
$cc $flags -DWIRE_WITHOUT_MAIN -o "$out/nsi.dll" nsi.c show.c adapters.c wire.c builtin.c nsi.def
$cc ${flags#-shared} -o "$out/porthole-launch.exe" launch.c -lntdll
$cc ${flags#-shared} -o "$out/ipconfig.exe" ipconfig.c -liphlpapi -lws2_32
$cc ${flags#-shared} -o "$out/hostname.exe" hostname.c -lws2_32
$cc ${flags#-shared} -municode -DWIRE_PORT=SCM_PORT '-DWIRE_VARIABLE="SCM_ADDR"' -o "$out/shutdown.exe" shutdown.c wire.c
$cc ${flags#-shared} -o "$out/nltest.exe" nltest.c -ladvapi32
$cc ${flags#-shared} -o "$out/findstr.exe" findstr.c
$cc ${flags#-shared} -o "$out/ping.exe" ping.c -liphlpapi -lws2_32
$cc ${flags#-shared} -o "$out/porthole-pipe.exe" pipe.c
$cc ${flags#-shared} -municode -o "$out/whoami.exe" whoami.c -ladvapi32
$cc ${flags#-shared} -municode -o "$out/net.exe" net.c -lnetapi32
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/netsh.exe" ../netsh
