// Package hostfs knows where the files of an emulated host are on this machine, and opens those that programs of the
// host can change meanwhile: nothing outside of what they see is reached through a link, and no named pipe is waited
// for.
package hostfs
