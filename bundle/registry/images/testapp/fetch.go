package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// fetch lets a test outside ask this program to make a connection, so that a packet's path starts in this container:
//
//	/fetch?url=http://…&timeout=2s     what that server answers; the time-out may be left out
//	/echo?network=udp&addr=HOST:PORT   sends a line and wants it back
func addFetchRoutes(mux *http.ServeMux) {
	mux.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		limit, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil {
			limit = 5 * time.Second
		}
		// The dialer needs the limit too. Otherwise it outlives a request that timed out, and the next request joins
		// its lookup of the name, in which a lost packet is repeated after 5 s only.
		dialer := &net.Dialer{Timeout: limit}
		client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
		resp, err := client.Get(r.URL.Query().Get("url"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	})

	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		answer, err := echoOnce(r.URL.Query().Get("network"), r.URL.Query().Get("addr"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, answer)
	})
}

func echoOnce(network, addr string) (string, error) {
	if network == "udp" {
		answer, err := udpExchange(addr, []byte("ping\n"), 3*time.Second)
		if err == nil && string(answer) != "ping\n" {
			err = fmt.Errorf("sent ping, got %q", answer)
		}
		return "ok", err
	}

	conn, err := net.DialTimeout(network, addr, 3*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return "", err
	}

	if _, err := fmt.Fprint(conn, "ping\n"); err != nil {
		return "", err
	}
	buffer := make([]byte, 64)
	n, err := conn.Read(buffer)
	if err == nil && strings.TrimSpace(string(buffer[:n])) != "ping" {
		err = fmt.Errorf("sent ping, got %q", buffer[:n])
	}
	return conn.LocalAddr().String() + " ok", err
}
