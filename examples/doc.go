// Package examples has only tests: they build the programs below and run them as a reader
// would.
package examples
