// The linters of make check, in a module of their own: no program of ours is built with them.
module porthole.dev/porthole/tools/lint

go 1.26.0

require (
	github.com/kisielk/errcheck v1.30.0
	golang.org/x/tools v0.51.0
	sigs.k8s.io/logtools v0.11.0
)

require (
	golang.org/x/exp v0.0.0-20240506185415-9bf2ced13842 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
)
