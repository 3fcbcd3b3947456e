// Package mischief plays a user who changes files while code with more rights works on them: at random, or the same
// ones again and again.
package mischief
