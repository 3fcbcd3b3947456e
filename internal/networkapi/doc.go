// Package networkapi reads from the API server what a service proxy and the agent of the pod network need, and writes
// their events and what they tell of their node; and what people look at (Overview). Its client knows only the kinds
// that are needed for that: client-go's whole clientset would be half of such a program, on disk and in memory.
package networkapi
