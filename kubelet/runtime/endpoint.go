package runtime

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// endpoint is where a runtime listens.
type endpoint struct {
	network string // unix, tcp or npipe
	address string // a path, host:port, or \\HOST\pipe\NAME
}

// parseEndpoint accepts the spellings that upstream's cri-client accepts on Linux and on Windows
// (pkg/util/util_unix.go and util_windows.go). It refuses others that upstream would dial without success for ever.
// The result does not depend on the system.
func parseEndpoint(text string) (endpoint, error) {
	// A path alone is a socket of Linux, but not two slashes, which begin a pipe.
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return endpoint{"unix", text}, nil
	}

	switch {
	case ok && scheme == "unix":
		if path := strings.TrimPrefix(rest, "//"); strings.HasPrefix(path, "/") {
			return endpoint{"unix", path}, nil
		}
		return endpoint{}, fmt.Errorf("runtime endpoint %q: a socket is written unix:///PATH", text)
	case ok && scheme == "tcp":
		address := strings.TrimPrefix(rest, "//")
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return endpoint{}, fmt.Errorf("runtime endpoint %q: a TCP endpoint is written tcp://HOST:PORT", text)
		}
		return endpoint{"tcp", address}, nil
	case ok && scheme == "npipe":
		path, ok := pipePath(text)
		if !ok {
			return endpoint{}, fmt.Errorf("runtime endpoint %q: a named pipe is written npipe:////./pipe/NAME", text)
		}
		return endpoint{"npipe", path}, nil
	// A pipe without its scheme is written in the two ways of Windows.
	case strings.HasPrefix(text, `\\`) || strings.HasPrefix(text, `//`):
		return endpoint{}, fmt.Errorf("runtime endpoint %q: a named pipe is written npipe:////./pipe/NAME", text)
	}
	return endpoint{}, fmt.Errorf("runtime endpoint %q: it must begin with npipe:, tcp: or unix: and name an address",
		text)
}

// pipePath returns \\HOST\pipe\NAME for a pipe's URL, which has four usual spellings: npipe:////./pipe/x,
// npipe://./pipe/x, npipe:\\.\pipe\x and npipe:///pipe/x. A URL without a host means this host. ok is false if text is
// not the path of a pipe: Windows would read \\HOST\NAME as a share and .\pipe\NAME as a file.
func pipePath(text string) (path string, ok bool) {
	u, err := url.Parse(strings.ReplaceAll(text, `\`, "/"))
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", false
	}

	full := u.Path // with four slashes, the path begins with the last two
	if !strings.HasPrefix(full, "//") {
		host := u.Host
		if host == "" {
			host = "."
		}
		full = "//" + host + u.Path
	}

	host, rest, _ := strings.Cut(strings.TrimPrefix(full, "//"), "/")
	kind, name, _ := strings.Cut(rest, "/")
	if host == "" || !strings.EqualFold(kind, "pipe") || name == "" {
		return "", false
	}
	return `\\` + host + `\pipe\` + strings.ReplaceAll(name, "/", `\`), true
}
