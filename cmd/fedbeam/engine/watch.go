package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Prism does not always notice that a worker process has ended, and then waits for it for ever. So each worker holds a
// connection to the program that it works for. If a worker ends during its job, the program gives the job up. If the
// program ends, its workers end too.

// watchVariable names, in the environment of worker processes, where to connect.
const watchVariable = "FEDBEAM_WATCH"

// patience is the time that a job has to end by itself after a worker has ended: at the end of a job, Prism ends the
// workers first.
const patience = 5 * time.Second

// errWorkerEnded is why a job was given up.
var errWorkerEnded = errors.New("a worker process ended before its job did")

// watch gives a context that is cancelled after a worker process has ended, and what ends the watch.
func watch(ctx context.Context) (watched context.Context, stop func(), err error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, nil, err
	}
	if err = os.Setenv(watchVariable, listener.Addr().String()); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	watched, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			all.Go(func() { hold(watched, conn, cancel) })
		}
	})
	return watched, func() {
		cancel(nil)
		listener.Close() //nolint:errcheck // nobody is to connect any more
		all.Wait()
	}, nil
}

// hold waits for the end of a worker or of the watch, which it tells the worker of.
func hold(watched context.Context, conn net.Conn, cancel context.CancelCauseFunc) {
	defer context.AfterFunc(watched, func() { conn.Close() })() //nolint:errcheck // the worker ends by that
	_, _ = io.Copy(io.Discard, conn)                            // a worker says nothing
	select {
	case <-watched.Done():
	case <-time.After(patience):
		cancel(errWorkerEnded)
	}
	conn.Close() //nolint:errcheck // it may be closed already
}

// beWatched connects a worker process to the program that it works for, if that watches, and ends the process with it.
func beWatched() error {
	at := os.Getenv(watchVariable)
	if at == "" {
		return nil
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		os.Exit(1)
	}()
	return nil
}
