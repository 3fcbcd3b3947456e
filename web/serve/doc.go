// Package serve is the HTTP side of `porthole web`: it admits browsers that have the link, and gives them the page and
// its data.
package serve
