package state

// Raised follows the reply that has lifted the token of a grant. Its loss may have been reported before.
func (s *State) Raised(c *Claim, token int64) {
	c.Token = token
	if loss, isLost := s.losses[release{c.Name, token}]; isLost {
		s.lose(c, loss.reason)
	}
}
