// BridgeStan's C interface over any program that stanc has translated.
//
// stanc's output exports `new_model`; everything here goes through stan::model::model_base, so
// this file is compiled once and linked to every model. The library that results is loaded by
// the official BridgeStan clients. Differences from BridgeStan's own build: second derivatives
// are central differences of gradients, and threads are always on.
//
// Reference: Roualdes et al., BridgeStan: Efficient in-memory access to the methods of a Stan
// model, JOSS 8(87), 2023.

#include <stan/io/chained_var_context.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/random_var_context.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,
                                   std::ostream* messages);

#define PUBLIC extern "C" __attribute__((visibility("default")))

using Vector = Eigen::VectorXd;
using Callback = void (*)(const char*, size_t);

namespace {

Callback print_callback = nullptr;
std::mutex print_mutex;

// What a program prints during one call, handed on when the call ends.
class Messages {
 public:
  Messages() { stream().str(std::string()); }
  ~Messages() {
    const std::string text = stream().str();
    if (text.empty()) return;
    std::lock_guard<std::mutex> lock(print_mutex);
    if (print_callback)
      print_callback(text.data(), text.size());
    else
      std::cout << text << std::flush;
  }
  operator std::ostream*() { return &stream(); }

 private:
  static std::ostringstream& stream() {
    thread_local std::ostringstream instance;
    return instance;
  }
};

// With STAN_THREADS every thread that differentiates needs a tape of its own.
void ensure_tape() { thread_local stan::math::ChainableStack tape; }

void tell(char** error, const char* text) {
  if (error) *error = strdup(text);
}

// Run `body`; 0 if it ended well, else -1 and a message that the caller frees.
template <typename Body>
int guarded(const char* name, char** error, Body body) {
  try {
    ensure_tape();
    body();
    return 0;
  } catch (const std::exception& problem) {
    tell(error, problem.what());
  } catch (...) {
    tell(error, (std::string(name) + " failed for an unknown reason").c_str());
  }
  return -1;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += ',';
    text += name;
  }
  return text;
}

std::unique_ptr<stan::io::var_context> read_json(const char* text) {
  if (!text || !*text) return std::make_unique<stan::io::empty_var_context>();
  std::istringstream stream(text);
  return std::make_unique<stan::json::json_data>(stream);
}

template <typename T>
T log_density(const stan::model::model_base& model, bool propto, bool jacobian,
              Eigen::Matrix<T, -1, 1>& theta, std::ostream* messages) {
  if (propto)
    return jacobian ? model.log_prob_propto_jacobian(theta, messages)
                    : model.log_prob_propto(theta, messages);
  return jacobian ? model.log_prob_jacobian(theta, messages) : model.log_prob(theta, messages);
}

// The value without derivatives. propto has nothing to drop when all is double, so that case
// goes through the tape to give the same constant as the gradient does.
double value(const stan::model::model_base& model, bool propto, bool jacobian,
             const Vector& theta) {
  Messages messages;
  if (!propto) {
    Vector copy = theta;
    return log_density<double>(model, false, jacobian, copy, messages);
  }
  stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<stan::math::var, -1, 1> point = theta;
  return log_density<stan::math::var>(model, true, jacobian, point, messages).val();
}

double gradient(const stan::model::model_base& model, bool propto, bool jacobian,
                const Vector& theta, double* out) {
  Messages messages;
  stan::math::nested_rev_autodiff nested;
  Eigen::Matrix<stan::math::var, -1, 1> point = theta;
  auto result = log_density<stan::math::var>(model, propto, jacobian, point, messages);
  result.grad();
  Eigen::Map<Vector>(out, theta.size()) = point.adj();
  return result.val();
}

// The derivative of the gradient along v, by central differences of fourth order.
Vector gradient_along(const stan::model::model_base& model, bool propto, bool jacobian,
                      const Vector& theta, const Vector& v) {
  const double length = v.norm();
  Vector total = Vector::Zero(theta.size());
  if (length == 0) return total;
  const double size = std::max(1.0, theta.lpNorm<Eigen::Infinity>());
  const double step = std::pow(std::numeric_limits<double>::epsilon(), 0.2) * size / length;
  Vector one(theta.size());
  for (double shift : {-2.0, -1.0, 1.0, 2.0}) {
    gradient(model, propto, jacobian, theta + shift * step * v, one.data());
    const double weight = std::abs(shift) == 1.0 ? 8.0 : -1.0;
    total += (shift > 0 ? weight : -weight) / (12.0 * step) * one;
  }
  return total;
}

}  // namespace

struct bs_rng {
  explicit bs_rng(unsigned int seed) : state(stan::services::util::create_rng(seed, 1)) {}
  decltype(stan::services::util::create_rng(0, 1)) state;
};

struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, info, unconstrained_names, names[2][2];
  int num_unconstrained, num[2][2];

  bs_model(const char* data, unsigned int seed) {
    ensure_tape();
    auto context = read_json(data);
    Messages messages;
    model.reset(&new_model(*context, seed, messages));
    name = model->model_name();
    info = "STAN_VERSION=" STAN_STRING(STAN_MAJOR) "." STAN_STRING(STAN_MINOR) "." STAN_STRING(
        STAN_PATCH) "\nSTAN_THREADS=true\nSTAN_MODEL_FVAR_VAR=false\n";
    for (const auto& line : model->model_compile_info()) info += line + "\n";
    std::vector<std::string> list;
    model->unconstrained_param_names(list, false, false);
    num_unconstrained = static_cast<int>(list.size());
    unconstrained_names = joined(list);
    for (int tp = 0; tp < 2; ++tp)
      for (int gq = 0; gq < 2; ++gq) {
        list.clear();
        model->constrained_param_names(list, tp, gq);
        num[tp][gq] = static_cast<int>(list.size());
        names[tp][gq] = joined(list);
      }
  }

  Vector point(const double* theta) const {
    return Eigen::Map<const Vector>(theta, num_unconstrained);
  }
};

PUBLIC int bs_major_version;
PUBLIC int bs_minor_version;
PUBLIC int bs_patch_version;
int bs_major_version = BRIDGESTAN_MAJOR;
int bs_minor_version = BRIDGESTAN_MINOR;
int bs_patch_version = BRIDGESTAN_PATCH;

PUBLIC bs_model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  bs_model* made = nullptr;
  guarded("bs_model_construct", error, [&] { made = new bs_model(data, seed); });
  return made;
}

PUBLIC void bs_model_destruct(bs_model* m) { delete m; }
PUBLIC void bs_free_error_msg(char* text) { free(text); }
PUBLIC const char* bs_name(const bs_model* m) { return m->name.c_str(); }
PUBLIC const char* bs_model_info(const bs_model* m) { return m->info.c_str(); }
PUBLIC int bs_param_unc_num(const bs_model* m) { return m->num_unconstrained; }
PUBLIC const char* bs_param_unc_names(const bs_model* m) {
  return m->unconstrained_names.c_str();
}
PUBLIC int bs_param_num(const bs_model* m, bool tp, bool gq) { return m->num[tp][gq]; }
PUBLIC const char* bs_param_names(const bs_model* m, bool tp, bool gq) {
  return m->names[tp][gq].c_str();
}

PUBLIC int bs_param_constrain(const bs_model* m, bool tp, bool gq, const double* theta,
                              double* out, bs_rng* rng, char** error) {
  return guarded("bs_param_constrain", error, [&] {
    if (gq && !rng) throw std::invalid_argument("generated quantities need a random generator");
    bs_rng unused(0);
    Vector point = m->point(theta), values;
    Messages messages;
    m->model->write_array((rng ? rng : &unused)->state, point, values, tp, gq, messages);
    Eigen::Map<Vector>(out, values.size()) = values;
  });
}

PUBLIC int bs_param_unconstrain(const bs_model* m, const double* values, double* out,
                                char** error) {
  return guarded("bs_param_unconstrain", error, [&] {
    const Vector constrained = Eigen::Map<const Vector>(values, m->num[0][0]);
    Vector theta;
    Messages messages;
    m->model->unconstrain_array(constrained, theta, messages);
    Eigen::Map<Vector>(out, theta.size()) = theta;
  });
}

PUBLIC int bs_param_unconstrain_json(const bs_model* m, const char* json, double* out,
                                     char** error) {
  return guarded("bs_param_unconstrain_json", error, [&] {
    auto context = read_json(json);
    Vector theta;
    Messages messages;
    m->model->transform_inits(*context, theta, messages);
    Eigen::Map<Vector>(out, theta.size()) = theta;
  });
}

PUBLIC int bs_param_initialize(const bs_model* m, const char* json, bs_rng* rng, double radius,
                               int max_tries, bool jacobian, double* out, char** error) {
  return guarded("bs_param_initialize", error, [&] {
    auto given = read_json(json);
    std::string last = "the log density is not finite";
    for (int attempt = 0; attempt < max_tries; ++attempt) {
      stan::io::random_var_context random(*m->model, rng->state, radius, radius == 0);
      stan::io::chained_var_context context(*given, random);
      Vector theta;
      try {
        Messages messages;
        m->model->transform_inits(context, theta, messages);
        if (std::isfinite(value(*m->model, false, jacobian, theta))) {
          Eigen::Map<Vector>(out, theta.size()) = theta;
          return;
        }
      } catch (const std::domain_error& problem) {
        last = problem.what();
      }
    }
    throw std::domain_error("no point with a finite log density was found: " + last);
  });
}

PUBLIC int bs_log_density(const bs_model* m, bool propto, bool jacobian, const double* theta,
                          double* out, char** error) {
  return guarded("bs_log_density", error,
                 [&] { *out = value(*m->model, propto, jacobian, m->point(theta)); });
}

PUBLIC int bs_log_density_gradient(const bs_model* m, bool propto, bool jacobian,
                                   const double* theta, double* out, double* grad,
                                   char** error) {
  return guarded("bs_log_density_gradient", error, [&] {
    *out = gradient(*m->model, propto, jacobian, m->point(theta), grad);
  });
}

PUBLIC int bs_log_density_hessian(const bs_model* m, bool propto, bool jacobian,
                                  const double* theta, double* out, double* grad,
                                  double* hessian, char** error) {
  return guarded("bs_log_density_hessian", error, [&] {
    const Vector point = m->point(theta);
    *out = gradient(*m->model, propto, jacobian, point, grad);
    Eigen::MatrixXd rows(point.size(), point.size());
    for (Eigen::Index i = 0; i < point.size(); ++i)
      rows.col(i) = gradient_along(*m->model, propto, jacobian, point,
                                   Vector::Unit(point.size(), i));
    Eigen::Map<Eigen::MatrixXd>(hessian, point.size(), point.size()) =
        0.5 * (rows + rows.transpose());
  });
}

PUBLIC int bs_log_density_hessian_vector_product(const bs_model* m, bool propto, bool jacobian,
                                                 const double* theta, const double* v,
                                                 double* out, double* product, char** error) {
  return guarded("bs_log_density_hessian_vector_product", error, [&] {
    const Vector point = m->point(theta);
    *out = value(*m->model, propto, jacobian, point);
    Eigen::Map<Vector>(product, point.size()) =
        gradient_along(*m->model, propto, jacobian, point, m->point(v));
  });
}

PUBLIC bs_rng* bs_rng_construct(unsigned int seed, char** error) {
  bs_rng* made = nullptr;
  guarded("bs_rng_construct", error, [&] { made = new bs_rng(seed); });
  return made;
}

PUBLIC void bs_rng_destruct(bs_rng* rng) { delete rng; }

PUBLIC int bs_set_print_callback(Callback callback, char**) {
  std::lock_guard<std::mutex> lock(print_mutex);
  print_callback = callback;
  return 0;
}
