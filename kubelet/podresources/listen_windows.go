package podresources

import (
	"net"

	"github.com/Microsoft/go-winio"
)

// pipe is upstream's name (pkg/kubelet/apis/podresources of 1.36.3).
const pipe = `\\.\pipe\kubelet-pod-resources`

func listen(string) (net.Listener, error) { return winio.ListenPipe(pipe, nil) }
