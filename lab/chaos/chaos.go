// Package chaos tests a federation under randomly generated faults: the roles and the secure sum of
// a deployment, on a virtual clock. The network loses, delays, duplicates and reorders messages.
// Clients crash at any point and restart with nothing but their durable records.
//
// A seed determines one Schedule: the cohort, the graph, the releases, the budgets and every
// fault. A schedule has two phases. In the first, faults occur, and a round may end in a sum
// or in an abort. Then the federation heals: all clients run and no further message is lost,
// although delayed messages still arrive. The next round must end in a sum. Throughout,
// Checker objects observe the messages that are sent and received and the records that are made
// durable, and each checks one rule of the protocol.
//
//	go test ./lab/chaos -run TestSchedules -schedules 500 -seed 1 -mode both -v
//	go test ./lab/chaos -run TestReplay -replay 17 -v # one of them, told as it happens
//
// Equal flags give equal reports at any number of workers. The package has only tests.
//
// # What is not covered
//
// The server and the aggregator do not crash, and messages between them are duplicated and delayed
// but not lost: the server has no clock, so a deployment must keep that link reliable. No party
// lies; the attack tests of package secagg cover that. Active mode runs on complete graphs only,
// since the sparse graph begins above 500 clients, and without replaced noise, which it refuses.
package chaos
