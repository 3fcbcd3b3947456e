// Package serviceapi reads from the API server what a service proxy needs, and writes its events. Its client knows only the kinds that
// are needed for that: client-go's whole clientset would be half of such a program, on disk and in memory.
package serviceapi
