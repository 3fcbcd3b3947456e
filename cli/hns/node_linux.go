package hns

import (
	"net/http"

	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/cluster/observe"
)

func clientOf(dir, node string) (*http.Client, error) {
	l, err := layout.New(dir)
	if err != nil {
		return nil, err
	}
	return observe.NodeClient(l, node)
}

const defaultDir = layout.DefaultDir
