module porthole.dev/porthole/bundle/registry

go 1.26.0

require (
	github.com/opencontainers/go-digest v1.0.0
	github.com/opencontainers/image-spec v1.1.1
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
)
