package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// fetch lets a test outside ask this program to make a connection, so that a packet's path starts in this container:
//
//	/fetch?url=http://…&timeout=2s     what that server answers; the time-out may be left out
//	/echo?network=udp&addr=HOST:PORT   sends a line and wants it back; with &bytes=N so many bytes, over UDP in one packet
func addFetchRoutes(mux *http.ServeMux) {
	mux.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		limit, err := time.ParseDuration(r.URL.Query().Get("timeout"))
		if err != nil {
			limit = 5 * time.Second
		}
		// The dialer needs the limit too. Otherwise it outlives a request that timed out, and the next request joins
		// its lookup of the name, in which a lost packet is repeated after 5 s only.
		dialer := &net.Dialer{Timeout: limit}
		client := &http.Client{Timeout: limit,
			Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
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
		q := r.URL.Query()
		size, err := strconv.Atoi(cmp.Or(q.Get("bytes"), "0"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		message := []byte("ping\n")
		if size > 0 {
			message = pattern(size)
		}
		answer, err := echoOnce(q.Get("network"), q.Get("addr"), message)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, answer)
	})
}

// pattern returns bytes in which one that is lost, or comes twice, is seen.
func pattern(size int) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

// echoOnce sends a message to an echo server and wants it back. The answer has the address that it was sent from, over
// TCP.
func echoOnce(network, addr string, message []byte) (string, error) {
	if network == "udp" {
		answer, err := udpExchange(addr, message, 3*time.Second)
		if err == nil && !bytes.Equal(answer, message) {
			err = fmt.Errorf("sent %d bytes, got %d others", len(message), len(answer))
		}
		return "ok", err
	}

	conn, err := net.DialTimeout(network, addr, 3*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}

	// The message is sent while the answer is read: a long one would fill the buffers of both ends
	// otherwise.
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(message)
		sent <- err
	}()
	answer := make([]byte, len(message))
	n, err := io.ReadFull(conn, answer)
	if err != nil {
		return "", fmt.Errorf("%d of %d bytes came back: %w", n, len(message), err)
	}
	if !bytes.Equal(answer, message) {
		return "", fmt.Errorf("the %d bytes that came back are not those that were sent", n)
	}
	return conn.LocalAddr().String() + " ok", <-sent
}
