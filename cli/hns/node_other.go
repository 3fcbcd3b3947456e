//go:build !linux

package hns

import (
	"errors"
	"net/http"
)

const defaultDir = ""

func clientOf(string, string) (*http.Client, error) {
	return nil, errors.New("--node: local clusters are on Linux; give --address")
}
