// Package serviceapi is what a service proxy reads from the API server, and what it writes there. Its client knows the kinds
// that are needed for that and no others: client-go's whole clientset is half of such a program, on disk and in memory.
package serviceapi
