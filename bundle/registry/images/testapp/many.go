package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// atOnce is how many of many questions are under way at a time.
const atOnce = 8

// many asks a question a number of times and prints each answer with how often it came. One that fails is an error.
func many(count string, ask func() (string, error)) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of questions", count)
	}
	// left counts down; a worker that gets a negative number is done.
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	answers, failures := map[string]int{}, map[string]int{}

	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				answer, err := ask()
				mu.Lock()
				if err != nil {
					failures[err.Error()]++
				} else {
					answers[answer]++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()

	// Answers are printed even if some questions failed.
	for answer, times := range answers {
		fmt.Println(times, answer)
	}
	var failed []error
	for failure, times := range failures {
		failed = append(failed, fmt.Errorf("%d times: %s", times, failure))
	}
	return errors.Join(failed...)
}

// spread makes a number of connections to a URL and prints the first word of each answer with how often it came.
func spread(args []string) error {
	if len(args) < 2 {
		return errors.New("spread needs a number and a URL")
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return many(args[0], func() (string, error) {
		resp, err := client.Get(args[1])
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		word, _, _ := strings.Cut(string(body), " ")
		return strings.TrimSpace(word), err
	})
}
