// Package silos owns the silos of an emulated host: jobs whose programs see files of their own, those of the bind
// filter (bindfltapi.dll).
//
// A silo is a second mount of the host's Wine prefix, with the mappings mounted on its C:. Wine takes both for one
// prefix, since device and inode are the same, so that the silo's programs have the host's wineserver, registry, pipes
// and network. A program that is made in the job gets the second mount as its prefix (emulator/dll/mend_process.c),
// and so do those that it makes. Without a silo a mapping is mounted on the C: of the host itself.
package silos
