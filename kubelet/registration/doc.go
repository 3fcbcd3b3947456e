// Package registration finds plugins of the node (storage drivers, device drivers) by the sockets that they put into
// one folder, and speaks the registration protocol with each.
//
//	<root>/plugins_registry/NAME-reg.sock ──GetInfo──> type, name, endpoint, versions ──> Handler of the type
//	                                      <──NotifyRegistrationStatus── registered, or why not
//
// A plugin is registered as long as its socket is there. A socket that was replaced belongs to a new process, so the
// plugin is registered again.
package registration
