package admission

import "crypto/sha256"

// view is the list of a state, made once for all who ask.
type view struct {
	version uint64 // the state's
	list    *List  // must not be changed
	digest  Hash   // of its text
	text    []byte // nil of a list that was taken over, until it is asked for
}

// Share lets this registry and other registries of the process skip verifying what one of
// them has verified already. It is called before the first update.
func (r *Registry) Share(v *Verified) { r.verified = v }

// Lookup says which place an identity has now; false for an identity that is not
// enrolled. A connection gater uses it.
func (r *Registry) Lookup(identity PublicKey) (Place, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.identities[identity]
	return p, ok
}

// Holder is the identity that has a place now.
func (r *Registry) Holder(p Place) (PublicKey, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.places[p]
	if !ok {
		return PublicKey{}, false
	}
	return e.Identity, true
}

// Revocations are the newest known revocations, nil if there are none.
func (r *Registry) Revocations() *Revocations {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.revocations.clone()
}

// NextSerial returns the next serial of a place by the newest known revocations.
func (r *Registry) NextSerial(p Place) uint32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.barred.serials[p] + 1
}

// List is the present enrolment list.
func (r *Registry) List() *List {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.listing()
}

// Current returns the present enrolment list, which is shared and must not be changed, and the
// digest of its text. If the list was taken over (Take), the digest is of the text that was
// received.
func (r *Registry) Current() (*List, Hash, error) {
	v, err := r.viewed(false)
	if err != nil {
		return nil, Hash{}, err
	}
	return v.list, v.digest, nil
}

// Text is the encoded list and its SHA-256. It is encoded once while the list does not change, so that it
// can be sent to many parties; it must not be changed.
func (r *Registry) Text() ([]byte, Hash, error) {
	v, err := r.viewed(true)
	if err != nil {
		return nil, Hash{}, err
	}
	return v.text, v.digest, nil
}

// viewed is the present view, with the list's text or whatever there is.
func (r *Registry) viewed(text bool) (*view, error) {
	if v := r.present(text); v != nil {
		return v, nil
	}
	r.making.Lock() // it takes long, and is the same for all who wait for it
	defer r.making.Unlock()
	if v := r.present(text); v != nil {
		return v, nil
	}
	r.mu.RLock()
	v := &view{version: r.version, list: r.listing()}
	r.mu.RUnlock()
	var err error
	if v.text, err = v.list.Encode(); err != nil { // encoded once here, so that connecting parties need not wait for it
		return nil, err
	}
	v.digest = sha256.Sum256(v.text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil || v.version >= r.view.version {
		r.view = v
	}
	return v, nil
}

func (r *Registry) present(text bool) *view {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if v := r.view; v != nil && v.version == r.version && (v.text != nil || !text) {
		return v
	}
	return nil
}

// listing is the list. The caller holds mu.
func (r *Registry) listing() *List {
	l := &List{Federation: *r.Federation(), Revocations: r.revocations.clone(), Enrolments: make([]Enrolment, 0, len(r.places))}
	for _, e := range r.list() {
		l.Enrolments = append(l.Enrolments, *e)
	}
	return l
}
