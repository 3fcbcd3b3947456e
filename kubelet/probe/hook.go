package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The user agent of hooks, and how long one may take; upstream's values.
const (
	hookAgent   = "kube-lifecycle/1.36"
	hookTimeout = time.Minute
)

// HookGet runs an httpGet hook. Any answer is a success, regardless of its status. As with upstream's kubelet,
// redirects to the same host are followed, and one to another host is the answer: the hook of a pod asks nobody else
// in the node's name. If the answer to an https request is plain http, the request is sent again as http, without
// credentials, and plain is true.
func HookGet(ctx context.Context, h *v1.HTTPGetAction, t Target) (plain bool, err error) {
	port, err := findPort(h.Port.String(), t.Container)
	if err != nil {
		return false, err
	}
	address := net.JoinHostPort(hostOf(h, t), strconv.Itoa(port))
	client := &http.Client{Timeout: hookTimeout, CheckRedirect: sameHost, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
		DialContext:       dialer(hookTimeout).DialContext,
	}}
	err = hookOnce(ctx, client, h, address)
	if h.Scheme == v1.URISchemeHTTPS && errors.Is(err, http.ErrSchemeMismatch) {
		again := h.DeepCopy()
		again.Scheme, again.HTTPHeaders = v1.URISchemeHTTP, nil
		for _, header := range h.HTTPHeaders {
			if http.CanonicalHeaderKey(header.Name) != "Authorization" {
				again.HTTPHeaders = append(again.HTTPHeaders, header)
			}
		}
		return true, hookOnce(ctx, client, again, address)
	}
	return false, err
}

func hookOnce(ctx context.Context, client *http.Client, h *v1.HTTPGetAction, address string) error {
	req, err := httpRequest(ctx, hookAgent, h, address)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return nil
}
