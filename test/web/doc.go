// Package web tests the page of `porthole web` in a headless Chromium: against a made cluster of 50 nodes and 2,000
// pods.
package web
