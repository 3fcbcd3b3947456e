//go:build !windows

package credential

// endings are what the file of a plugin may have after its name.
var endings = []string{""}
