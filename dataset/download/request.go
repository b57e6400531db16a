package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"
)

// response is an answer whose body ends with ErrStalled when nothing comes for too long.
type response struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// request asks for a file as it is, with more header fields than that takes.
func request(ctx context.Context, client *http.Client, address string, header http.Header) (*response, error) {
	r := &response{}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, address, nil)
	if err != nil {
		r.cancel(nil)
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept-Encoding", "identity") // a packed answer has other bytes to resume from
	r.timer = time.AfterFunc(stallAfter, func() { r.cancel(ErrStalled) })
	if r.Response, err = client.Do(req); err != nil {
		err = r.cause(err)
		r.timer.Stop()
		r.cancel(nil)
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return r, nil
}

// Read reads the body.
func (r *response) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil { // the body may still have something at hand
		return 0, r.cause(err)
	}
	n, err := r.Body.Read(p)
	r.timer.Reset(stallAfter)
	if err != nil && err != io.EOF {
		err = r.cause(err)
	}
	return n, err
}

// cause returns why the request was ended from this side, or else what ended it.
func (r *response) cause(err error) error {
	switch {
	case errors.Is(context.Cause(r.ctx), ErrStalled):
		return ErrStalled
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	}
	if network, ok := errors.AsType[*url.Error](err); ok {
		return network.Err // who calls adds the address
	}
	return err
}

// Close ends the request.
func (r *response) Close() error {
	r.timer.Stop()
	err := r.Body.Close()
	r.cancel(nil)
	return err
}
