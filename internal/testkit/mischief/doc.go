// Package mischief plays a user who changes files at random while code with more rights works on them.
package mischief
