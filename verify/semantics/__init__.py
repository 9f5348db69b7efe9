"""What operators mean: shapes, index maps, element terms, storage. Generic over numbers and solver terms; no solver here."""
