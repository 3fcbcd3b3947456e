// Package subpath makes a path inside a volume one that a container can be given: nobody who may write to the volume
// can have it lead elsewhere. On Linux it is mounted at a place of its own, on Windows its folders are held open.
package subpath
