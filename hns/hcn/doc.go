// Package hcn asks the Host Compute Network service of this Windows host. It is the only user of hcsshim: it gives
// every call a deadline, turns HCN documents into hns values and HCN codes into hns error classes.
package hcn
