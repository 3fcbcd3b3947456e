// Package files writes the files of a volume and replaces them, so that a reader sees either all old or all new ones.
package files
