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

// Hooks: what they call themselves, and how long one may take in all, as upstream has it.
const (
	hookAgent   = "kube-lifecycle/1.36"
	hookTimeout = time.Minute
)

// HookGet does what an httpGet hook asks for. Any answer is good, whatever its status. An https request that is answered
// in plain http is sent again as http, without credentials; plain tells of that.
func HookGet(ctx context.Context, h *v1.HTTPGetAction, t Target) (plain bool, err error) {
	port, err := findPort(h.Port.String(), t.Container)
	if err != nil {
		return false, err
	}
	address := net.JoinHostPort(hostOf(h, t), strconv.Itoa(port))
	client := &http.Client{Timeout: hookTimeout, Transport: &http.Transport{
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
