// Package static reads pods that do not come from the API server: from a folder (or one file) of manifests, and from a
// web address.
//
//	file changed ─┐
//	rescan ───────┴─> read all ─> parse, defaults, checks ─> deliver(all pods)
//
// A source always delivers everything it has. What it could not read keeps what it was before: only a file that is gone
// takes its pod away.
package static
