// Package scm is the service manager of an emulated host. It has Windows' rules where Wine's own manager has none: services start
// after those that they depend on and stop before them, a process has 30 s to answer, one that ends without a word or with an
// error is started again as its recovery actions say, and at shutdown each is told in its order and has its time.
//
// A service gets what Windows gives it: no standard error, the working folder C:\windows\system32, and nobody who reads what it
// prints. Programs reach the manager through our sechost.dll (emulator/dll/sechost.c) over the frames of package wire.
//
//	D/hosts/NAME/scm/services.json   configuration of all services
//	D/hosts/NAME/scm/events.jsonl    the Windows event log: System (the manager's own) and Application (the services')
//
// A Manager runs until its process ends; the processes of its services end with it.
package scm
