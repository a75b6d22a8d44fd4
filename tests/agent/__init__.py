"""Ray is imported here, before pytest looks, because warnings are errors in these tests and Ray's own are not ours."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray.serve  # noqa: F401
