// Command shell is /bin/sh of the images. On Linux it picks between two shells of Debian, because neither does all
// that the tests expect of upstream's busybox. On Windows it is a shell and a set of small programs in one file, each
// under a name of its own, as upstream's busybox for Windows is.
package main
