package hns

import (
	"net/http"

	"porthole.dev/porthole/cluster"
)

func clientOf(dir, node string) (*http.Client, error) {
	l, err := cluster.NewLayout(dir)
	if err != nil {
		return nil, err
	}
	return cluster.NodeClient(l, node)
}

const defaultDir = cluster.DefaultDir
