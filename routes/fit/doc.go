// Package fit says which mode of ours fits a cluster that has a network already, and with which flags, or why none
// does and what to change. It is pure: it reads objects that somebody else listed.
//
//	objects of the API ──Read──▶ what was found ──Advise──▶ mode and flags, or the reason and the change ──▶ text or JSON
package fit
