// Package storagedriver is a storage driver for tests: the three services of CSI, on one machine, with volumes that
// are folders.
//
//	<Dir>/volumes/<id>        what is in a volume
//	<Dir>/volumes/<id>.img    a volume that is a raw device (Linux)
//	<Dir>/state.json          what was made, attached, staged and published
//
// It is strict where CSI lets a driver be lenient: a volume that is published before it was staged, staged before it
// was attached or unstaged while it is published is an error and a violation, which tests ask for. Its state outlives
// it, as that of a real driver does. On Linux it publishes by bind mounts, elsewhere by symbolic links.
package storagedriver
