// Package locked calls a function while a lock is held.
package locked

import "sync"

// Get returns what a function returns.
func Get[T any](l sync.Locker, f func() T) T {
	l.Lock()
	defer l.Unlock()
	return f()
}

// Do calls a function.
func Do(l sync.Locker, f func()) {
	l.Lock()
	defer l.Unlock()
	f()
}
