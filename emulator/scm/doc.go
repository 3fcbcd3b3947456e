// Package scm is the service manager of an emulated host. It follows the rules of Windows that Wine's own manager
// lacks: services start after those that they depend on and stop before them; a process has 30 s to answer; a service
// whose process ends without reporting that it stopped, or with an error, is started again by its recovery actions;
// and at shutdown the services stop in an order, each with a time limit.
//
// As on Windows a service has no standard error, its working folder is C:\windows\system32, and what it prints is
// lost. Programs reach the manager through our sechost.dll (emulator/dll/sechost.c) with the frames of package wire.
//
//	D/hosts/NAME/scm/services.json   configuration of all services
//	D/hosts/NAME/scm/events.jsonl    the Windows event log: System (the manager's own) and Application (the services')
//
// Tests make calls of programs fail: `porthole host services NAME --fault create:kubelet:1072:2` (fault.go).
//
// A Manager runs until its process ends; the processes of its services end with it.
package scm
