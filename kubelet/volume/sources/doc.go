// Package sources reads what the files of volumes hold: keys of ConfigMaps and Secrets, fields of the pod, tokens,
// bundles of authorities, certificates. A source is a file here, and a line in the list of projected.go.
package sources
