package admission

// RevocationOf revokes an enrolled party, and bars its key from coming back.
func RevocationOf(e *Enrolment) Revocation {
	return Revocation{Place: e.Ticket.Place, Serial: e.Ticket.Serial, Identity: e.Identity}
}

// SignedBy returns revocations as an earlier key of the operator signs them.
func (r *Revocations) SignedBy(by PrivateKey) *Revocations {
	c := r.clone()
	c.Signature = by.Sign(c.Hash())
	return c
}
