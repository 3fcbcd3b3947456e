# dll: the DLLs that the emulated Windows host needs and Wine lacks, into bin/windows/dll.
DLL_SOURCES := $(wildcard emulator/dll/*.c emulator/dll/*.h emulator/dll/*.def) emulator/dll/build.sh $(wildcard emulator/netsh/*.go emulator/mends/*.go emulator/firewall/*.go emulator/tar/*.go emulator/curl/*.go emulator/nslookup/*.go)

.PHONY: dll
dll: bin/windows/dll/computenetwork.dll

bin/windows/dll/computenetwork.dll: $(DLL_SOURCES)
	@sh emulator/dll/build.sh bin/windows/dll
