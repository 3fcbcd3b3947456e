/* The numbers of the protocol between the DLLs and hnsd. Generated from emulator/wire: go generate ./emulator/wire */
#ifndef PORTHOLE_OPS_H
#define PORTHOLE_OPS_H

#define HNSD_PORT 10090
#define SCM_PORT 10092
#define HCSD_PORT 10093
#define MARK_SOCKET "porthole-marks"
#define MARK_MS 1000
#define MAX_FRAME 67108864u
#define NULL_TEXT 0xffffffffu

/* An operation on an object is the kind's plus the function's. */
enum {
	OP_NETWORK = 0,
	OP_ENDPOINT = 10,
	OP_NAMESPACE = 20,
	OP_LOADBALANCER = 30,
	OP_SDNROUTE = 40,
};

enum {
	FN_ENUMERATE = 0,
	FN_CREATE = 1,
	FN_OPEN = 2,
	FN_MODIFY = 3,
	FN_QUERY = 4,
	FN_DELETE = 5,
	FN_CLOSE = 6,
};

enum {
	OP_HNSCALL = 100,
	OP_ROUTE = 101,
	OP_EVENTS = 102,
	OP_NOTIFY = 103,
	OP_ADDRESS = 104,
	OP_INTERFACE = 105,
	OP_FIREWALL = 106,
	OP_ADAPTERS = 107,
	OP_HELLO = 1000,
	OP_SCM = 200,
	OP_SCM_DISPATCH = 201,
	OP_SCM_DONE = 202,
	OP_HCS = 300,
	OP_HCS_NOTIFY = 301,
	OP_HCS_STREAM = 302,
};

#define FLAG_FORWARDING 1

/* What a service is told. */
enum { SCM_START = 1, SCM_CONTROL = 2, SCM_END = 3 };

/* What a program is answered when hnsd cannot be reached, and when it goes away during a call. */
#define RPC_SERVER_UNAVAILABLE ((HRESULT)0x800706baL)
#define RPC_CALL_FAILED ((HRESULT)0x800706beL)

#define HCS_DRAIN 1
#define SERVICE_DISCONNECT 0x01000000 /* HcnNotificationServiceDisconnect */

#endif
