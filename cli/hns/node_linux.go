package hns

import (
	"net/http"

	"porthole.dev/porthole/cluster"
)

func clientOf(node string) (*http.Client, error) { return cluster.NodeClient(node) }
