"""The page reader, a library: a public page as readable text with numbered links. Knows neither Ray nor who asks."""
